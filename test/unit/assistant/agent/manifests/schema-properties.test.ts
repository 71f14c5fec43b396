import { expect, test } from "vitest";
import { findField } from "../../../../../src/assistant/agent/manifests/schema-properties.ts";

test("a field is found in a schema that has more branches than a JavaScript function call may have arguments", () => {
  const anyOf: unknown[] = Array.from({ length: 200_000 }, () => true);
  expect(findField({ anyOf }, ["id"])).toEqual({ state: "open" });
  anyOf.unshift({ properties: { id: {} } });
  expect(findField({ anyOf }, ["id"])).toMatchObject({ state: "present" });
});
