// A worker that tries nonces: each order is a part of the sequence, each answer its nonce or null.
import { tried } from './tried.js';

onmessage = ({ data: { stage1, target, first, count } }) => postMessage({ first, nonce: tried(stage1, target, first, count) });
