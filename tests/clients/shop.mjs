// A shop in Express that knows nothing of idempotency: each POST is another order, a line in a file.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, ledger] = process.argv.slice(2);
const express = createRequire(`${packages}/`)("express");
const app = express();
app.use(express.json());

const orders = () => (existsSync(ledger) ? readFileSync(ledger, "utf8").split("\n").slice(0, -1) : []);

app.post("/orders", async (request, response) => {
  // Long enough for a repeat to come while it runs.
  await new Promise((resolve) => setTimeout(resolve, 200));
  appendFileSync(ledger, `${request.body.order_no}\n`);
  const id = orders().length;
  response.status(201).location(`/orders/${id}`).cookie("basket", "empty");
  response.json({ id, order_no: request.body.order_no });
});

app.get("/orders", (_request, response) => response.json(orders()));

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
