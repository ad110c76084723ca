// The SharedWorker of an app's name: the engine outlives the tab that began it.
import { Engine } from './engine.js';
import { Host, holdEngine } from './tabs.js';

const host = new Host(async post => {
  await holdEngine(self.name);
  return Engine.open(self.name, null, post);
});

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => host.hear(data, message => port.postMessage(message)).then(isForgotten => isForgotten && self.close());
};
