// A signer and a consumer made of gouroboros:
//
//	submit SOCKET MAGIC FILE    hand each message in, a message in hex in each line; print what is said
//	watch SOCKET MAGIC COUNT    ask with blocking requests; print the ids
//	between HEX...              print message submission between nodes as it is written here, a message in hex in each
//	                            line, and then how each of the given messages is read
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"

	ouroboros "github.com/blinklabs-io/gouroboros"
	"github.com/blinklabs-io/gouroboros/cbor"
	"github.com/blinklabs-io/gouroboros/protocol/common"
	"github.com/blinklabs-io/gouroboros/protocol/localmessagenotification"
	"github.com/blinklabs-io/gouroboros/protocol/localmessagesubmission"
	"github.com/blinklabs-io/gouroboros/protocol/messagesubmission"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func between(given []string) {
	id := make([]byte, 32)
	for _, message := range []any{
		messagesubmission.NewMsgInit(),
		messagesubmission.NewMsgRequestMessageIds(true, 0, 33),
		messagesubmission.NewMsgReplyMessageIds([]common.MessageIDAndSize{{MessageID: id, SizeInBytes: 1088}}),
		messagesubmission.NewMsgRequestMessages([][]byte{id}),
		messagesubmission.NewMsgReplyMessages([]common.DmqMessage{}),
		messagesubmission.NewMsgDone(),
	} {
		wire, err := cbor.Encode(message)
		fail(err)
		fmt.Println(hex.EncodeToString(wire))
	}
	for _, text := range given {
		wire, err := hex.DecodeString(text)
		fail(err)
		message, err := messagesubmission.NewMsgFromCbor(uint(wire[1]), wire)
		if err != nil {
			fmt.Println("not read")
		} else {
			fmt.Printf("%T\n", message)
		}
	}
}

func main() {
	if os.Args[1] == "between" {
		between(os.Args[2:])
		return
	}
	magic, err := strconv.ParseUint(os.Args[3], 10, 32)
	fail(err)
	said := make(chan string)
	read := make(chan []common.DmqMessage)
	submission := localmessagesubmission.Config{
		AcceptMessageFunc: func(localmessagesubmission.CallbackContext) { said <- "accepted" },
		RejectMessageFunc: func(_ localmessagesubmission.CallbackContext, reason common.RejectReason) {
			said <- fmt.Sprintf("rejected %T", reason)
		},
	}
	notification := localmessagenotification.Config{
		ReplyMessagesFunc: func(_ localmessagenotification.CallbackContext, messages []common.DmqMessage, _ bool) {
			read <- messages
		},
	}
	node, err := ouroboros.New(
		ouroboros.WithNetworkMagic(uint32(magic)),
		ouroboros.WithDMQ(true),
		ouroboros.WithLocalMessageSubmissionConfig(submission),
		ouroboros.WithLocalMessageNotificationConfig(notification),
	)
	fail(err)
	fail(node.Dial("unix", os.Args[2]))
	if os.Args[1] == "submit" {
		file, err := os.Open(os.Args[4])
		fail(err)
		lines := bufio.NewScanner(file)
		node.LocalMessageSubmission().Client.Start()
		for lines.Scan() {
			raw, err := hex.DecodeString(lines.Text())
			fail(err)
			var message common.DmqMessage
			_, err = cbor.Decode(raw, &message)
			fail(err)
			fail(node.LocalMessageSubmission().Client.SubmitMessage(&message))
			fmt.Println(<-said)
		}
		return
	}
	count, err := strconv.Atoi(os.Args[4])
	fail(err)
	node.LocalMessageNotification().Client.Start()
	for count > 0 {
		fail(node.LocalMessageNotification().Client.RequestMessagesBlocking())
		for _, message := range <-read {
			fmt.Println(hex.EncodeToString(message.MessageID))
			count--
		}
	}
}
