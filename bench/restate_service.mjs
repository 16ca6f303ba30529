// The shapes of bench/peer.py as handlers of Restate services, bench0 and on: a service for each workflow of
// ours. Run it by itself, with the URL to call and the number of services; prints the port of the service, and that of a counter: each byte sent to it is answered with the runs done.

import http2 from "node:http2";
import net from "node:net";
import * as restate from "@restatedev/restate-sdk";

// The SDK expects it, and Node 20 does not have it yet.
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const AT_A_TIME = 50; // as many items as a workflow of ours has at work
const [url, count] = process.argv.slice(2);
let done = 0;

const post = (ctx, body) =>
  ctx.run("call", async () => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return { status: response.status, body: await response.json() };
  });

const inARow = (calls) => async (ctx, event) => {
  let call;
  for (let number = 0; number < calls; number++) call = await post(ctx, { id: event.id });
  return { id: event.id, ok: call.body.ok };
};

const shapes = {
  async w1(ctx, event) {
    if (!(event.amount > 10)) return null;
    const call = await post(ctx, { id: event.id, amount: event.amount });
    return { id: event.id, ok: call.body.ok, status: call.status };
  },

  five: inARow(5),
  fifty: inARow(49),

  async each(ctx, event) {
    const calls = [];
    for (let start = 0; start < event.lines.length; start += AT_A_TIME) {
      const some = event.lines.slice(start, start + AT_A_TIME);
      calls.push(...(await restate.RestatePromise.all(some.map((line) => post(ctx, { line })))));
    }
    return { id: event.id, lines: calls.length };
  },
};

const counted = (shape) => async (ctx, event) => {
  const output = await shape(ctx, event);
  done += 1;
  return output;
};

const service = (_, number) => {
  const handlers = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, counted(shape)]));
  return restate.service({ name: `bench${number}`, handlers });
};
const services = Array.from({ length: Number(count) }, service);
const listening = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
const endpoint = await listening(http2.createServer(restate.createEndpointHandler({ services })));
const counter = await listening(
  net.createServer((socket) => socket.on("data", () => socket.write(`${done}\n`)).on("error", () => {})),
);
console.log(`${endpoint} ${counter}`);
