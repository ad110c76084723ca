// The SharedWorker of an app's name: the engine outlives the tab that began it.
import { Engine } from './engine.js';
import { Host, hearChannel, holdEngine } from './tabs.js';

const endIf = isForgotten => { if (isForgotten) self.close(); };
const host = new Host(async post => {
  await holdEngine(self.name);
  hearChannel(self.name, host, endIf);
  return Engine.open(self.name, null, post);
});

self.onconnect = ({ ports: [port] }) => {
  let isLeft = false;
  port.onmessage = ({ data }) => {
    if (data.left) isLeft = true;
    else host.hear(data, message => port.postMessage(message), () => isLeft).then(endIf);
  };
};
