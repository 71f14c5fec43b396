import { expect, test } from "vitest";
import { Revocations, Revoked } from "../../../../src/assistant/remote/revocations.ts";

const gone = new Revoked("model_not_found", "the provider acme was removed", "acme");

test("each that watches is told once, as often as it watches, and nobody who has left", () => {
  const withdrawals = new Revocations();
  const told: string[] = [];
  const tell = ({ code }: Revoked) => told.push(code);
  withdrawals.onRevoked("acme", tell);
  const leave = withdrawals.onRevoked("acme", tell);
  withdrawals.onRevoked("acme", tell);
  withdrawals.onRevoked("other", tell);
  leave();
  withdrawals.end("acme", gone);
  expect(told).toEqual(["model_not_found", "model_not_found"]);
  withdrawals.end("acme", gone);
  expect(told).toHaveLength(2);
});

test("who leaves after the end takes nobody along who came since", () => {
  const withdrawals = new Revocations();
  let times = 0;
  const leave = withdrawals.onRevoked("acme", () => {});
  withdrawals.end("acme", gone);
  withdrawals.onRevoked("acme", () => (times += 1));
  leave();
  withdrawals.end("acme", gone);
  expect(times).toBe(1);
});
