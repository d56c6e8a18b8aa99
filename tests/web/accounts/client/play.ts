// Ten rounds by a client that was generated from the document of the API: every path, body and answer below is checked
// against it by the compiler.

import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const [address, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${token}` } });
const key = (text: string) => ({ "Idempotency-Key": text });
const own = { name: "generated" };

function sure<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

sure(await client.POST("/api/accounts", { params: { header: key("new") }, body: { name: own.name, seed: 0, policy: { kind: "headgate" }, system: { buffer: { north: 8, south: 9 }, budget: 20, currency: "EUR" } } }));
for (let round = 1; round <= 10; round += 1) {
  const ask = () => client.POST("/api/accounts/{name}/rounds", { params: { path: own, header: key(`begin-${round}`) }, body: { price: 1 + (round % 4), lot: 1 } });
  const begun = sure(await ask());
  const again = sure(await ask());
  if (JSON.stringify(begun) !== JSON.stringify(again)) throw new Error("another answer to the same request");
  const reports = Object.fromEntries(begun.purchases.map(({ client: name, samples }) => [String(name), samples]));
  const done = sure(await client.PUT("/api/accounts/{name}/rounds/{round}/settlement", { params: { path: { ...own, round }, header: key(`settle-${round}`) }, body: { reports, refused: {} } }));
  if (done.settled !== round) throw new Error(`round ${round} is not settled`);
}
const refused = await client.POST("/api/accounts/{name}/rounds", { params: { path: own, header: key("wrong") }, body: { price: -1, lot: 1 } });
if (refused.error?.setting !== "price") throw new Error("no problem that names the setting");
const { spent } = sure(await client.GET("/api/accounts/{name}/balance", { params: { path: own } }));
const { agrees } = sure(await client.GET("/api/accounts/{name}/audit", { params: { path: own } }));
console.log(JSON.stringify({ spent, agrees }));
