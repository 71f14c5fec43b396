import { expect, test } from "vitest";
import { BusClientError, TestSessionBus } from "../support/test-session-bus.ts";

const daemon = "org.freedesktop.DBus";
const object = "/org/freedesktop/DBus";

test("a private bus answers standard clients until it is disposed", async () => {
  let address = "";
  {
    await using bus = await TestSessionBus.start();
    ({ address } = bus);
    await using monitor = await bus.monitor(daemon);
    expect(await bus.gdbusCall(daemon, object, `${daemon}.NameHasOwner`, daemon)).toBe("(true,)");
    expect(await bus.busctlCall(daemon, object, daemon, "NameHasOwner", "s", "no.such")).toEqual([
      false,
    ]);
    expect(await bus.gdbusIntrospect(daemon, object)).toContain("ListNames");
    await monitor.line(/NameOwnerChanged/);
    const wrong = bus.gdbusCall(daemon, object, `${daemon}.NoSuch`);
    await expect(wrong).rejects.toMatchObject({ busName: `${daemon}.Error.UnknownMethod` });
    await expect(bus.busctlCall(daemon, object, daemon, "NoSuch")).rejects.toThrow(BusClientError);
  }
  await using other = await TestSessionBus.start();
  const { code } = await other.run("busctl", [`--address=${address}`, "list"]);
  expect(code).not.toBe(0);
});
