import type { JsonObject } from "../../agent/port.ts";
import type { Guide } from "../../inference/service-port.ts";
import type { ToolCandidate } from "./tool-candidates.ts";

/** The name that the model writes if no further tool is needed. */
export const NO_TOOL = "none";

/**
 * Builds the guide, a schema for the model's output: one object with a tool's name and its arguments, or `none`. For
 * tools in `enforced` the arguments follow the tool's schema; for other tools the arguments are any object, which the
 * agent validates later.
 */
export function buildChoiceGuide(
  candidates: readonly ToolCandidate[],
  enforced: ReadonlySet<ToolCandidate>,
): Guide {
  const calls = candidates.map((candidate, index) => ({
    type: "object",
    properties: {
      tool: { const: candidate.name },
      args: enforced.has(candidate)
        ? embedSchema(candidate.inputSchema, index)
        : { type: "object" },
    },
    required: ["tool", "args"],
    additionalProperties: false,
  }));
  const none = {
    type: "object",
    properties: { tool: { const: NO_TOOL } },
    required: ["tool"],
    additionalProperties: false,
  };
  const schema = { anyOf: [...calls, none] };
  return { kind: "json_schema", name: "next_call", schema, strict: true };
}

/**
 * Prepares a tool's schema for embedding in a larger schema. The added `$id` keeps references inside the tool's schema
 * valid. A tool's schema never has an `$id` of its own.
 */
function embedSchema(schema: JsonObject, index: number): JsonObject {
  const { $schema: _, ...rest } = schema;
  return { $id: `https://tools.invalid/${index}`, ...rest };
}
