// Command youzan-oracle publishes and consumes with the client that Youzan wrote for its fork of NSQ.
//
// It prints a line of JSON for each message that the cluster confirmed, or that it was given.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spaolacci/murmur3"
	nsq "github.com/youzan/go-nsq"
)

const patience = 30 * time.Second

type options struct {
	lookups  string
	topic    string
	channel  string
	count    int
	keys     int
	extended bool
	ordered  bool
	trace    bool
	pace     time.Duration
	hold     time.Duration
}

// line is one message: Trace is what it was published with, or came with.
type line struct {
	Key       string `json:"key"`
	Number    int    `json:"number"`
	Trace     uint64 `json:"trace"`
	ID        uint64 `json:"id"`
	Offset    uint64 `json:"offset"`
	Size      uint32 `json:"size"`
	Partition string `json:"partition,omitempty"`
	Attempts  uint16 `json:"attempts,omitempty"`
	Retries   int    `json:"retries,omitempty"`
	Ext       string `json:"ext,omitempty"`
}

type payload struct {
	Key    string `json:"key"`
	Number int    `json:"number"`
}

var printing sync.Mutex

func say(value any) {
	printing.Lock()
	defer printing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		log.Fatal(err)
	}
}

func (o *options) config() *nsq.Config {
	config := nsq.NewConfig()
	config.EnableTrace = o.trace
	config.EnableOrdered = o.ordered
	config.Hasher = murmur3.New32()
	config.LookupdPollInterval = time.Second
	config.LookupdPollJitter = 0
	config.HeartbeatInterval = time.Second
	config.MaxInFlight = 100
	return config
}

func (o *options) publish() error {
	producers, err := nsq.NewTopicProducerMgr([]string{o.topic}, o.config())
	if err != nil {
		return err
	}
	producers.SetLogger(log.New(os.Stderr, "", log.Ltime), nsq.LogLevelWarning)
	producers.AddLookupdNodes(strings.Split(o.lookups, ","))
	defer producers.Stop()
	for number := 0; number < o.count; number++ {
		found, err := o.publishOne(producers, number)
		if err != nil {
			return err
		}
		say(found)
		time.Sleep(o.pace)
	}
	return nil
}

// publishOne goes on until the message is confirmed: what comes behind it in its key must not overtake it.
func (o *options) publishOne(producers *nsq.TopicProducerMgr, number int) (*line, error) {
	key := fmt.Sprintf("key-%d", number%o.keys)
	body, err := json.Marshal(payload{key, number})
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(patience)
	for retries := 0; ; retries++ {
		found, err := o.try(producers, key, uint64(number)+1, body)
		if err == nil {
			found.Key, found.Number, found.Retries = key, number, retries
			return found, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("message %d: %w", number, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (o *options) try(producers *nsq.TopicProducerMgr, key string, trace uint64, body []byte) (*line, error) {
	if o.extended {
		ext := &nsq.MsgExt{TraceID: trace, Custom: map[string]interface{}{"origin": "oracle"}}
		id, offset, size, err := producers.PublishOrderedWithJsonExt(o.topic, []byte(key), body, ext)
		return &line{Trace: trace, ID: uint64(id), Offset: offset, Size: size}, err
	}
	id, offset, size, err := producers.PublishOrdered(o.topic, []byte(key), body)
	return &line{Trace: uint64(murmur3.Sum32([]byte(key))), ID: uint64(id), Offset: offset, Size: size}, err
}

func (o *options) consume() error {
	consumer, err := nsq.NewConsumer(o.topic, o.channel, o.config())
	if err != nil {
		return err
	}
	consumer.SetLogger(log.New(os.Stderr, "", log.Ltime), nsq.LogLevelWarning)
	done := make(chan struct{})
	seen := map[int]bool{}
	var guard sync.Mutex
	consumer.AddConcurrentHandlers(nsq.HandlerFunc(func(message *nsq.Message) error {
		number, err := o.take(message)
		if err != nil {
			return err
		}
		guard.Lock()
		defer guard.Unlock()
		if seen[number] = true; len(seen) == o.count {
			close(done)
			o.count = -1
		}
		return nil
	}), 4)
	if err := consumer.ConnectToNSQLookupds(strings.Split(o.lookups, ",")); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-done:
		// The last FIN is on its way behind the handler's return.
		time.Sleep(50 * time.Millisecond)
	case <-ended:
	}
	consumer.Stop()
	<-consumer.StopChan
	return nil
}

func (o *options) take(message *nsq.Message) (int, error) {
	var found payload
	if err := json.Unmarshal(message.Body, &found); err != nil {
		return 0, err
	}
	time.Sleep(o.hold)
	say(line{
		Key:       found.Key,
		Number:    found.Number,
		Trace:     message.GetTraceID(),
		ID:        uint64(nsq.GetNewMessageID(message.ID[:])),
		Offset:    message.Offset,
		Size:      message.RawSize,
		Partition: message.Partition,
		Attempts:  message.Attempts,
		Ext:       string(message.ExtBytes),
	})
	return found.Number, nil
}

func main() {
	o := options{}
	flag.StringVar(&o.lookups, "lookups", "", "host:port of nsqlookupds, separated by commas")
	flag.StringVar(&o.topic, "topic", "", "topic")
	flag.StringVar(&o.channel, "channel", "", "consume this channel; without it messages are published")
	flag.IntVar(&o.count, "count", 1, "how many messages")
	flag.IntVar(&o.keys, "keys", 1, "of how many keys")
	flag.BoolVar(&o.extended, "extended", false, "publish with a JSON header that has the trace id")
	flag.BoolVar(&o.ordered, "ordered", true, "consume in order")
	flag.BoolVar(&o.trace, "trace", true, "trace messages")
	flag.DurationVar(&o.pace, "pace", 0, "pause after each message published")
	flag.DurationVar(&o.hold, "hold", 0, "how long a message consumed is held")
	flag.Parse()
	run := o.publish
	if o.channel != "" {
		run = o.consume
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
