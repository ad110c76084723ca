module gossipsub-peer

go 1.25

require (
	github.com/libp2p/go-libp2p v0.36.3
	github.com/libp2p/go-libp2p-pubsub v0.13.0
	github.com/multiformats/go-multiaddr v0.13.0
)
