// Buys with fetch, unchanged but for a key: once, again, and five times at once. Prints what came back.

const url = `${process.argv[2]}/orders`;

async function buy(order_no) {
  for (;;) {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": order_no, "X-User": "ann" },
      body: JSON.stringify({ amount: 10, order_no }),
    });
    const text = await answer.text();
    if (answer.status === 409 && answer.headers.get("retry-after")) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      continue;
    }
    return [answer.status, text, answer.headers.get("idempotent-replayed"), answer.headers.get("location")];
  }
}

const once = [await buy("n-1"), await buy("n-1")];
const at_once = await Promise.all(Array.from({ length: 5 }, () => buy("n-2")));
console.log(JSON.stringify({ fetch: once, "fetch at once": at_once }));
