import type { JsonObject } from "../../agent/port.ts";
import type { Guide } from "../../inference/service-port.ts";
import type { ToolCandidate } from "./tool-candidates.ts";

/** What the model answers where it wants no tool, or none any more. */
export const NO_TOOL = "none";

/**
 * One object: a tool's name and its arguments, or `none`. The arguments of tools in `enforced` meet their schemas;
 * those of the others are any object, which the agent checks anyway.
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

/** With an `$id` a schema keeps its references to parts of itself wherever it stands; tools give none of their own. */
function embedSchema(schema: JsonObject, index: number): JsonObject {
  const { $schema: _, ...rest } = schema;
  return { $id: `https://tools.invalid/${index}`, ...rest };
}
