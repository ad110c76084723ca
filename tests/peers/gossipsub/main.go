// A peer of go-libp2p-pubsub with StrictSign, on loopback, connected to all others and to their places again when they
// were away:
//
//	gossipsub NUMBER PORT...    be the peer of that number; peer N listens at the Nth of these ports of 127.0.0.1
//
// Lines on standard input: `publish MILLISECONDS BYTES` begins to publish at that pace, `hush` ends it, `count` prints
// {"neighbours": …}, the number of peers that are known to want the topic; its end ends the peer. A line is printed for each message:
//
//	{"ready": true}                            once it listens
//	{"sent": ID}                               before it is published
//	{"got": ID, "delay_s": SECONDS}            when it is delivered, of others' messages alone
package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
)

const redial = 500 * time.Millisecond

var printing sync.Mutex

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func say(line map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	fail(json.NewEncoder(os.Stdout).Encode(line))
}

// key returns the key of a peer, by its number, so that others know its id.
func key(number int) crypto.PrivKey {
	seed := make([]byte, ed25519.SeedSize)
	binary.BigEndian.PutUint64(seed, uint64(number)+1)
	found, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed))
	fail(err)
	return found
}

func place(port string) multiaddr.Multiaddr {
	found, err := multiaddr.NewMultiaddr("/ip4/127.0.0.1/tcp/" + port)
	fail(err)
	return found
}

// join keeps a connection to each peer of a lower number, and of a higher one after this one was started again.
func join(own int, ports []string, self host.Host) {
	for number, port := range ports {
		if number == own {
			continue
		}
		id, err := peer.IDFromPrivateKey(key(number))
		fail(err)
		info := peer.AddrInfo{ID: id, Addrs: []multiaddr.Multiaddr{place(port)}}
		go func() {
			for {
				if self.Network().Connectedness(id) != network.Connected {
					within, end := context.WithTimeout(context.Background(), 5*time.Second)
					_ = self.Connect(within, info) // asked again, as long as it is away
					end()
				}
				time.Sleep(redial)
			}
		}()
	}
}

// publish sends messages at a pace: eight bytes of the time in nanoseconds, eight of an id, and zeros.
func publish(own int, topic *pubsub.Topic, pace time.Duration, size int, end chan struct{}) {
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for {
		select {
		case <-end:
			return
		case <-ticks.C:
		}
		now := time.Now().UnixNano()
		body := make([]byte, size)
		id := fmt.Sprintf("%d-%d", own, now)
		binary.BigEndian.PutUint64(body, uint64(now))
		binary.BigEndian.PutUint64(body[8:], uint64(own))
		say(map[string]any{"sent": id})
		fail(topic.Publish(context.Background(), body))
	}
}

func read(own peer.ID, from *pubsub.Subscription) {
	for {
		message, err := from.Next(context.Background())
		fail(err)
		if message.GetFrom() == own {
			continue
		}
		at := binary.BigEndian.Uint64(message.Data)
		id := fmt.Sprintf("%d-%d", binary.BigEndian.Uint64(message.Data[8:]), at)
		say(map[string]any{"got": id, "delay_s": float64(time.Now().UnixNano()-int64(at)) / 1e9})
	}
}

func main() {
	number, err := strconv.Atoi(os.Args[1])
	fail(err)
	ports := os.Args[2:]
	self, err := libp2p.New(
		libp2p.Identity(key(number)), libp2p.ListenAddrs(place(ports[number])), libp2p.Transport(tcp.NewTCPTransport),
		libp2p.DisableRelay(),
	)
	fail(err)
	router, err := pubsub.NewGossipSub(
		context.Background(), self, pubsub.WithMessageSignaturePolicy(pubsub.StrictSign),
	)
	fail(err)
	topic, err := router.Join("measured")
	fail(err)
	subscription, err := topic.Subscribe()
	fail(err)
	go read(self.ID(), subscription)
	join(number, ports, self)
	say(map[string]any{"ready": true})
	end := make(chan struct{})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "publish":
			pace, err := strconv.Atoi(words[1])
			fail(err)
			size, err := strconv.Atoi(words[2])
			fail(err)
			end = make(chan struct{})
			go publish(number, topic, time.Duration(pace)*time.Millisecond, size, end)
		case "hush":
			close(end)
		case "count":
			say(map[string]any{"neighbours": len(topic.ListPeers())})
		}
	}
}
