import { expect, test } from "vitest";
import { AssistantError, assistantErrorCodes } from "../../../../src/assistant/assistant-error.ts";
import { busErrorTable } from "../../../../src/assistant/bus/bus-error-table.ts";
import { BusReplyError } from "../../../../src/assistant/bus/bus-reply-error.ts";
import { toErrorReply } from "../../../../src/assistant/bus/error-reply.ts";
import { parseInterfaceFile } from "../../../../src/assistant/bus/parse-interface-file.ts";
import { readOptions } from "../../../../src/assistant/bus/read-options.ts";

test.each(assistantErrorCodes)(
  "the error %s becomes a one-line D-Bus error with its own name",
  (code) => {
    const reply = toErrorReply(
      new AssistantError(code, `one\r\ntwo\u2028three\u0007 ${"x".repeat(2_000)}`),
    );
    expect(reply.busName).toBe(busErrorTable[code]);
    expect(reply.text).toMatch(/^\P{C}{20,1000}$/u);
    expect(reply.text).not.toMatch(/[\r\n\u2028]/);
    expect(reply.text.startsWith("one two three x")).toBe(code !== "internal");
    expect(reply.isUnexpected).toBe(code === "internal");
  },
);

test("standard D-Bus errors keep their names, and unexpected errors are sent without their text", () => {
  expect(toErrorReply(new BusReplyError("UnknownMethod", "no"))).toMatchObject({
    busName: "org.freedesktop.DBus.Error.UnknownMethod",
    text: "no",
  });
  for (const stranger of [new TypeError("secret"), "secret", undefined, { message: "secret" }]) {
    const reply = toErrorReply(stranger);
    expect(reply.busName).toBe("dev.assistant.Error.Failed");
    expect(reply.text).not.toContain("secret");
    expect(reply.isUnexpected).toBe(true);
  }
});

const types = { limit: "u", hybrid: "b", scopes: "as" } as const;

test("options of a D-Bus method are read by name and type", () => {
  const given = new Map([
    ["limit", { signature: "u", value: 5 }],
    ["scopes", { signature: "as", value: [] }],
  ]);
  expect(readOptions(types, given)).toEqual({ limit: 5, scopes: [] });
  expect(readOptions(types, new Map())).toEqual({});
});

test.each([
  ["limits", "u", "limits"],
  ["limit", "i", "limit"],
  ["hasOwnProperty", "b", "hasOwnProperty"],
  ["__proto__", "b", "__proto__"],
])(
  "the option %s of the wrong type %s is refused, and the error names it",
  (name, signature, param) => {
    const given = new Map([[name, { signature, value: 1 }]]);
    expect(() => readOptions(types, given)).toThrow(
      expect.objectContaining({ code: "invalid_request", param }),
    );
  },
);

test.each([
  ['<interface name="a.b"><method name="M"></interface>', /closes/],
  ['<interface name="a.b"><method/></interface>', /no name/],
  [
    '<interface name="a.b"><property name="P" type="s" access="readwrite"/></interface>',
    /read-only/,
  ],
  ['<interface name="a.b"><method name="M"><arg name="x"/></method></interface>', /no type/],
])("an invalid interface file is rejected with the reason: %s", (xml, message) => {
  expect(() => parseInterfaceFile(xml)).toThrow(message);
});
