package handler

import "sync"

// writeGate lets one write command run at a time.
var writeGate sync.Mutex
