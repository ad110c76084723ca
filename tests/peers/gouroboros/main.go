// A signer and a consumer made of gouroboros:
//
//	submit SOCKET MAGIC FILE    hand each message in, a message in hex in each line; print what is said
//	watch SOCKET MAGIC COUNT    ask with blocking requests; print the ids
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
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
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
