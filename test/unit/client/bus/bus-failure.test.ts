import { expect, it } from "vitest";
import { busErrorTable } from "../../../../src/assistant/bus/bus-error-table.ts";
import { BerthError } from "../../../../src/base/errors.ts";
import { toBerthError } from "../../../../src/client/bus/bus-failure.ts";
import { BusCallError } from "../../../../src/dbus/port.ts";

/** Error names whose details only the companion's log contains. */
const inexplicable = ["dev.assistant.Error.Failed"];

it.each([...new Set(Object.values(busErrorTable))])(
  "the bus error %s is mapped to an error of the command line",
  (name) => {
    const failure = toBerthError(new BusCallError(name, "the text"));
    if (!(failure instanceof BerthError)) throw new Error("it was passed on");
    expect(failure.message).not.toBe("");
    expect(failure.code === "internal").toBe(inexplicable.includes(name));
  },
);

it("an unknown error without a text is described by its name", () => {
  expect(toBerthError(new BusCallError("com.example.Odd", " \n"))).toMatchObject({
    code: "internal",
    message: "com.example.Odd",
  });
});

it("an error that is not from the bus is returned unchanged", () => {
  const abort = new DOMException("left", "AbortError");
  expect(toBerthError(abort)).toBe(abort);
});
