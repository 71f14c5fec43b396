import { expect, test } from "vitest";
import { Withdrawals, Withdrawn } from "../../../../src/assistant/remote/withdrawals.ts";

const gone = new Withdrawn("model_not_found", "the provider acme was removed", "acme");

test("each that watches is told once, as often as it watches, and nobody who has left", () => {
  const withdrawals = new Withdrawals();
  const told: string[] = [];
  const tell = ({ code }: Withdrawn) => told.push(code);
  withdrawals.on("acme", tell);
  const leave = withdrawals.on("acme", tell);
  withdrawals.on("acme", tell);
  withdrawals.on("other", tell);
  leave();
  withdrawals.end("acme", gone);
  expect(told).toEqual(["model_not_found", "model_not_found"]);
  withdrawals.end("acme", gone);
  expect(told).toHaveLength(2);
});

test("who leaves after the end takes nobody along who came since", () => {
  const withdrawals = new Withdrawals();
  let times = 0;
  const leave = withdrawals.on("acme", () => {});
  withdrawals.end("acme", gone);
  withdrawals.on("acme", () => (times += 1));
  leave();
  withdrawals.end("acme", gone);
  expect(times).toBe(1);
});
