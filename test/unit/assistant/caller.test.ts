import { describe, expect, test } from "vitest";
import {
  type Caller,
  type CallerApp,
  mayUseNetwork,
  ownerKey,
} from "../../../src/assistant/caller.ts";

function callerOf(connection: string, app?: CallerApp): Caller {
  return { connection, pid: 1, app };
}

describe("limits per caller", () => {
  test("count all connections of a sandboxed app as one caller", () => {
    const flatpak: CallerApp = { id: "org.a.B", kind: "flatpak", hasNetwork: true };
    expect(ownerKey(callerOf(":1.4", flatpak))).toBe(ownerKey(callerOf(":1.5", flatpak)));
    expect(ownerKey(callerOf(":1.4", { ...flatpak, id: "org.a.C" }))).not.toBe(
      ownerKey(callerOf(":1.4", flatpak)),
    );
  });

  test("count each connection outside a sandbox, whatever unit it is in", () => {
    const unit: CallerApp = { id: "org.a.B", kind: "unit" };
    const keys = [callerOf(":1.4", unit), callerOf(":1.5", unit), callerOf(":1.6")].map(ownerKey);
    expect(new Set(keys).size).toBe(3);
  });
});

describe("the use of the network", () => {
  test.each<[string, CallerApp | undefined, boolean]>([
    ["a program outside a sandbox", undefined, true],
    ["a program in the unit of an app", { id: "org.a.B", kind: "unit" }, true],
    ["a flatpak with the network", { id: "org.a.B", kind: "flatpak", hasNetwork: true }, true],
    ["a flatpak without it", { id: "org.a.B", kind: "flatpak", hasNetwork: false }, false],
    ["a sandbox of which it is unknown", { id: "b", kind: "snap" }, false],
  ])("is allowed or denied by the caller's sandbox: for %s", (_, app, expected) => {
    expect(mayUseNetwork(callerOf(":1.4", app))).toBe(expected);
  });
});
