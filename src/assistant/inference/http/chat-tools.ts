import { Type } from "typebox";
import { isObject } from "../../../base/json.ts";
import type { ToolDefinition } from "../runner.ts";
import type { ToolChoice } from "../service-port.ts";
import { createValidator, describeValueType, invalidParamError } from "./body-validator.ts";

export const TOOLS_MAX = 128;

/**
 * The function is optional in this schema, because a tool of another type has no function. The error for such a tool
 * should name its type, not the missing function.
 */
const tool = createValidator(
  Type.Object({ type: Type.Literal("function"), function: Type.Optional(Type.Unknown()) }),
);
const definition = createValidator(
  Type.Object({
    name: Type.String({ pattern: "^[a-zA-Z0-9_-]{1,64}$" }),
    description: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    // The member `strict` is ignored, because the arguments of a tool call always follow the schema.
    strict: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    parameters: Type.Optional(Type.Unknown()),
  }),
);

export function parseTools(tools: readonly unknown[]): ToolDefinition[] {
  const names = new Set<string>();
  return tools.map((value, index) => {
    const at = `tools[${index}]`;
    const given = definition(tool(value, at).function, `${at}.function`);
    if (names.has(given.name)) {
      throw invalidParamError(`${at}.function.name`, "is also the name of another tool");
    }
    names.add(given.name);
    const { parameters } = given;
    const isSchema = parameters === undefined || parameters === null || isObject(parameters);
    if (!isSchema) {
      throw invalidParamError(
        `${at}.function.parameters`,
        `has to be a JSON Schema of an object, and is ${describeValueType(parameters)}`,
      );
    }
    return {
      name: given.name,
      description: given.description ?? undefined,
      parameters: parameters ?? undefined,
    };
  });
}

const namedChoice = createValidator(
  Type.Object({
    type: Type.Literal("function"),
    function: Type.Object({ name: Type.String() }),
  }),
);

export function parseToolChoice(value: unknown, tools: readonly ToolDefinition[]): ToolChoice {
  if (value === undefined) return { kind: tools.length === 0 ? "none" : "auto" };
  if (value === "none" || value === "auto") return { kind: value };
  if (value !== "required" && (typeof value !== "object" || value === null)) {
    throw invalidParamError(
      "tool_choice",
      'has to be "none", "auto", "required" or { type: "function", function: { name } }',
    );
  }
  if (tools.length === 0)
    throw invalidParamError("tool_choice", "requires a tool, but the request has no tools");
  if (value === "required") return { kind: "required" };
  const { name } = namedChoice(value, "tool_choice").function;
  if (!tools.some((known) => known.name === name)) {
    throw invalidParamError("tool_choice.function.name", "is not the name of one of the tools");
  }
  return { kind: "function", name };
}
