// Speaks to a node as another node, by the multiplexer and the codecs of ouroboros-miniprotocols-ts:
//
//     node nodes.js HOST PORT PROPOSAL    the proposal in hex; prints what is answered to it, to a keep-alive, and to a
//                                         question for peers
//
// The library numbers its protocols as cardano-node does, so those of a DMQ node are given.
const net = require("net");
const {
  handshakeMessageFromCborObj, keepAliveMessageFromCborObj, peerSharingMessageFromCborObj,
  KeepAliveRequest, PeerSharingRequest, unwrapMultiplexerMessages, wrapMultiplexerMessage,
} = require("@harmoniclabs/ouroboros-miniprotocols-ts");
const { Cbor } = require("@harmoniclabs/cbor");

const [host, port, proposal] = process.argv.slice(2);
const asked = [
  [0, Uint8Array.from(Buffer.from(proposal, "hex")), handshakeMessageFromCborObj],
  [12, new KeepAliveRequest({ cookie: 48879 }).toCborBytes(), keepAliveMessageFromCborObj],
  [13, new PeerSharingRequest({ amount: 3 }).toCborBytes(), peerSharingMessageFromCborObj],
];
const socket = net.connect(Number(port), host);
let data = Buffer.alloc(0);
let at = 0;

function ask() {
  const [protocol, payload] = asked[at];
  socket.write(wrapMultiplexerMessage(payload, { protocol, hasAgency: true }));
}

socket.on("connect", ask);
socket.on("data", (more) => {
  data = Buffer.concat([data, more]);
  while (data.length >= 8 && data.length >= 8 + data.readUInt16BE(6)) {
    const size = 8 + data.readUInt16BE(6);
    const answers = (data.readUInt16BE(4) & 0x8000) !== 0; // else the node has begun a protocol of its own
    const [{ header, payload }] = unwrapMultiplexerMessages(Uint8Array.from(data.subarray(0, size)));
    data = data.subarray(size);
    if (!answers || header.protocol !== asked[at][0]) continue;
    const message = asked[at][2](Cbor.parse(payload));
    console.log(JSON.stringify({
      protocol: header.protocol, message: message.constructor.name, payload: Buffer.from(payload).toString("hex"),
      cookie: message.cookie === undefined ? null : Number(message.cookie),
    }));
    at += 1;
    if (at === asked.length) return void socket.destroy();
    ask();
  }
});
