// Shakes hands with a node by the multiplexer of ouroboros-miniprotocols-ts, and reads the answers by its codecs:
//
//     node peer.js SOCKET PROPOSAL...    each proposal in hex, over a connection of its own; prints what is answered
//
// The library makes no proposal of version 4097 itself (it marks clients by bit 15), so these bytes are given.
const net = require("net");
const { handshakeMessageFromCborObj, unwrapMultiplexerMessages, wrapMultiplexerMessage, MiniProtocol } = require(
  "@harmoniclabs/ouroboros-miniprotocols-ts",
);
const { Cbor } = require("@harmoniclabs/cbor");

function ask(path, proposal) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(path);
    let data = Buffer.alloc(0);
    socket.on("error", reject);
    socket.on("data", (more) => {
      data = Buffer.concat([data, more]);
      if (data.length < 8 || data.length < 8 + data.readUInt16BE(6)) return;
      const [{ header, payload }] = unwrapMultiplexerMessages(Uint8Array.from(data));
      const said = {
        agency: header.hasAgency, protocol: header.protocol, bytes: header.payloadLength,
        payload: Buffer.from(payload).toString("hex"),
      };
      try {
        said.message = handshakeMessageFromCborObj(Cbor.parse(payload)).constructor.name;
      } catch (error) {
        said.message = `not read: ${error.message}`.slice(0, 200);
      }
      socket.destroy();
      resolve(said);
    });
    const header = { protocol: MiniProtocol.Handshake, hasAgency: true };
    socket.write(wrapMultiplexerMessage(Uint8Array.from(Buffer.from(proposal, "hex")), header));
  });
}

(async () => {
  for (const proposal of process.argv.slice(3)) console.log(JSON.stringify(await ask(process.argv[2], proposal)));
})();
