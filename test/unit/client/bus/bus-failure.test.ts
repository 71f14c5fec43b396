import { expect, it } from "vitest";
import { busErrorTable } from "../../../../src/assistant/bus/bus-error-table.ts";
import { BerthError } from "../../../../src/base/errors.ts";
import { toBerthError } from "../../../../src/client/bus/bus-failure.ts";
import { BusCallError } from "../../../../src/dbus/port.ts";

/** Of which nobody but the companion's log knows more. */
const inexplicable = ["dev.assistant.Error.Failed"];

it.each([...new Set(Object.values(busErrorTable))])("%s means something", (name) => {
  const failure = toBerthError(new BusCallError(name, "the text"));
  if (!(failure instanceof BerthError)) throw new Error("it was passed on");
  expect(failure.message).not.toBe("");
  expect(failure.code === "internal").toBe(inexplicable.includes(name));
});

it("one that nobody knows is told by its name, where it has no text", () => {
  expect(toBerthError(new BusCallError("com.example.Odd", " \n"))).toMatchObject({
    code: "internal",
    message: "com.example.Odd",
  });
});

it("what is no answer of a bus is passed on", () => {
  const abort = new DOMException("left", "AbortError");
  expect(toBerthError(abort)).toBe(abort);
});
