import {
  type CallToolResult,
  type ProtocolEra,
  type StandardSchemaV1Sync,
  specTypeSchemas,
} from "@modelcontextprotocol/client";
import { isObject } from "../../../base/json.ts";

/**
 * Returns the schema of the result of `tools/call`, in the revisions of MCP that this era has. A request without a schema
 * makes the SDK validate `undefined` first, to find out if the era has the method, and the error message of that costs
 * more than the rest of the request.
 */
export function createCallResultSchema(
  era: ProtocolEra | undefined,
): StandardSchemaV1Sync<unknown, CallToolResult> {
  const { validate } = specTypeSchemas.CallToolResult["~standard"];
  return {
    "~standard": {
      version: 1,
      vendor: "berth",
      validate: (value) => {
        const problem = era === "legacy" ? findLegacyProblem(value) : findProblem(value);
        return problem === undefined ? validate(value) : { issues: [{ message: problem }] };
      },
    },
  };
}

/** SDK's schema replaces missing content by an empty list, which only older revisions allow. */
function findProblem(value: unknown): string | undefined {
  return isObject(value) && value["content"] === undefined ? "there is no content" : undefined;
}

/** The members of the results of other requests, from which a result without content cannot be told apart. */
const foreignMembers = ["task", "inputRequests", "requestState"];

function findLegacyProblem(value: unknown): string | undefined {
  if (!isObject(value)) return undefined;
  const { content, structuredContent } = value;
  if (content === undefined && foreignMembers.some((name) => name in value))
    return "this is not the result of a tool";
  return structuredContent === undefined || isObject(structuredContent)
    ? undefined
    : "structuredContent is not an object";
}
