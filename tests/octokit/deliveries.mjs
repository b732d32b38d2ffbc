// Prints the payloads of @octokit/webhooks-examples as deliveries, one JSON object with an id and a payload on each line.
//
//   node deliveries.mjs DIRECTORY [as-is|rewritten|changed]
//
// as-is: the payload as published. rewritten: the same payload with its members in another order and its numbers spelled
// otherwise (1 as 1.0, 1e0 ...). changed: one field of it is another one.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const [directory, form = "as-is"] = process.argv.slice(2);
const forms = { "as-is": JSON.stringify, rewritten, changed };
if (!directory || !(form in forms)) {
  console.error("usage: node deliveries.mjs DIRECTORY [as-is|rewritten|changed]");
  process.exit(64);
}

let spelled = 0;

function rewritten(value) {
  if (typeof value === "number" && Number.isInteger(value)) {
    return [`${value}.0`, `${value}e0`, `${value}.00E-0`, `${value}.000`][spelled++ % 4];
  }
  if (Array.isArray(value)) return `[ ${value.map(rewritten).join(" , ")} ]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).reverse();
  return `{ ${members.map(([name, inner]) => `${JSON.stringify(name)} : ${rewritten(inner)}`).join(" , ")} }`;
}

function changed(payload) {
  const [name] = Object.keys(payload);
  return JSON.stringify({ ...payload, [name]: { another: payload[name] } });
}

const lines = [];
for (const server of readdirSync(directory).sort()) {
  let events;
  try {
    events = JSON.parse(readFileSync(join(directory, server, "index.json"), "utf8"));
  } catch (error) {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") continue;
    throw error;
  }
  for (const { name, examples } of events) {
    examples.forEach((payload, at) => {
      lines.push(`{"id":${JSON.stringify(`${server}/${name}/${at}`)},"payload":${forms[form](payload)}}\n`);
    });
  }
}
process.stdout.write(lines.join(""));
