//! A signer, a consumer and a node made of pallas, which Mithril's clients are made of.
//!
//!     pallas-peer submit SOCKET MAGIC FILE    hand each message in over a connection of its own; print what is said
//!     pallas-peer watch SOCKET MAGIC COUNT    ask with blocking requests; print the ids
//!     pallas-peer serve SOCKET MAGIC FILE     be a node: print ids handed in, answer a blocking request with FILE's
//!
//! FILE holds a message in hex in each line.

use pallas_codec::minicbor;
use pallas_network::facades::{DmqClient, DmqServer};
use pallas_network::miniprotocols::localmsgnotification::Request as Asked;
use pallas_network::miniprotocols::localmsgsubmission::{DmqMsg, DmqMsgRejectReason};
use pallas_network::miniprotocols::localtxsubmission::{Request, Response};
use std::{env, error::Error, fs};
use tokio::net::UnixListener;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|one| format!("{one:02x}")).collect()
}

fn messages(file: &str) -> Result<Vec<DmqMsg>> {
    let mut found = Vec::new();
    for line in fs::read_to_string(file)?.lines() {
        let raw: std::result::Result<Vec<u8>, _> =
            (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16)).collect();
        found.push(minicbor::decode(&raw?)?);
    }
    Ok(found)
}

async fn submit(socket: &str, magic: u64, file: &str) -> Result<()> {
    for message in messages(file)? {
        let mut node = DmqClient::connect(socket, magic).await?;
        match node.msg_submission().submit_tx(message).await? {
            Response::Accepted => println!("accepted"),
            Response::Rejected(error) => println!("rejected {}", error.0),
        }
        node.msg_submission().terminate_gracefully().await?;
        node.abort().await;
    }
    Ok(())
}

async fn watch(socket: &str, magic: u64, count: usize) -> Result<()> {
    let mut node = DmqClient::connect(socket, magic).await?;
    let mut read = 0;
    while read < count {
        node.msg_notification().send_request_messages_blocking().await?;
        for message in node.msg_notification().recv_next_reply().await?.0 {
            println!("{}", hex(&message.msg_id));
            read += 1;
        }
    }
    node.msg_notification().send_request_messages_non_blocking().await?;
    let rest = node.msg_notification().recv_next_reply().await?;
    println!("then {} more, has more: {}", rest.0.len(), rest.1);
    node.msg_notification().send_done().await?;
    node.abort().await;
    Ok(())
}

async fn serve(socket: &str, magic: u64, file: &str) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    println!("ready");
    let mut signer = DmqServer::accept(&listener, magic).await?;
    let mut seen = 0;
    while let Request::Submit(message) = signer.msg_submission().recv_next_request().await? {
        println!("{}", hex(&message.msg_id));
        let answer = match seen {
            0 => Response::Accepted,
            _ => Response::Rejected(DmqMsgRejectReason::AlreadyReceived.into()),
        };
        signer.msg_submission().send_submit_tx_response(answer).await?;
        seen += 1;
    }
    let mut consumer = DmqServer::accept(&listener, magic).await?;
    let asked = consumer.msg_notification().recv_next_request().await?;
    if asked == Asked::Blocking {
        consumer.msg_notification().send_reply_messages_blocking(messages(file)?).await?;
    }
    consumer.msg_notification().recv_next_request().await.ok();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let magic = words[2].parse()?;
    match words[0].as_str() {
        "submit" => submit(&words[1], magic, &words[3]).await,
        "watch" => watch(&words[1], magic, words[3].parse()?).await,
        _ => serve(&words[1], magic, &words[3]).await,
    }
}
