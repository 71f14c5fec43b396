import { expect, test } from "vitest";
import { Revocations, Revoked } from "../../../../src/assistant/remote/revocations.ts";

const gone = new Revoked("model_not_found", "the provider acme was removed", "acme");

test("each subscription to a revocation is called once, and not after it was removed", () => {
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

test("unsubscribing after a revocation does not remove a later subscription to the same provider", () => {
  const withdrawals = new Revocations();
  let times = 0;
  const leave = withdrawals.onRevoked("acme", () => {});
  withdrawals.end("acme", gone);
  withdrawals.onRevoked("acme", () => (times += 1));
  leave();
  withdrawals.end("acme", gone);
  expect(times).toBe(1);
});
