module gouroboros-peer

go 1.25

require github.com/blinklabs-io/gouroboros v0.194.0
