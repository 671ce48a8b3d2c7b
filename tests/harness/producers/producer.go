// A producer in Go: `go run producer.go URL DESTINATION STOP` sends messages, one a request, from four goroutines until
// the file STOP is there. A request without an answer is repeated with the same id. Each id that was answered for (202)
// is a line of its output.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	workers = 4
	pause   = 10 * time.Millisecond
	again   = 20 * time.Millisecond
)

var client = &http.Client{Timeout: 10 * time.Second}

func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err)
	}
	var stamp [8]byte
	binary.BigEndian.PutUint64(stamp[:], uint64(time.Now().UnixMilli()))
	copy(id[:6], stamp[2:])
	id[6], id[8] = 0x70|id[6]&0x0f, 0x80|id[8]&0x3f
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func send(url, id string, body []byte) {
	for ; ; time.Sleep(again) {
		request, err := http.NewRequest("POST", url, bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Bus-Message-Id", id)
		answer, err := client.Do(request)
		if err != nil {
			continue
		}
		said, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err == nil && answer.StatusCode == 202 {
			return
		}
		if err == nil && answer.StatusCode < 500 && answer.StatusCode != 429 {
			fmt.Fprintln(os.Stderr, "refused", answer.Status, string(said))
			os.Exit(1)
		}
	}
}

func main() {
	url, stop := os.Args[1]+"/v1/messages/"+os.Args[2], os.Args[3]
	var group sync.WaitGroup
	for range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := 0; ; number++ {
				if _, err := os.Stat(stop); err == nil {
					return
				}
				id := newID()
				send(url, id, []byte(fmt.Sprintf(`{"from": "go", "number": %d}`, number)))
				os.Stdout.WriteString(id + "\n")
				time.Sleep(pause)
			}
		}()
	}
	group.Wait()
}
