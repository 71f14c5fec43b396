import {
  type CallToolResult,
  type ProtocolEra,
  type StandardSchemaV1Sync,
  specTypeSchemas,
} from "@modelcontextprotocol/client";
import { isObject } from "../../../base/json.ts";

/**
 * Returns the schema of the result of `tools/call` for the MCP revisions of an era, which is the SDK's name for a group
 * of revisions. Without this schema, the SDK would first validate `undefined` for each request, to find out if the era
 * has the method. The error message of that validation costs more time than the rest of the request.
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

/** The SDK's schema replaces missing content by an empty list, which only older revisions allow. */
function findProblem(value: unknown): string | undefined {
  return isObject(value) && value["content"] === undefined ? "there is no content" : undefined;
}

/**
 * Members of the results of other requests. A value without content that has one of these members is not the result of
 * a tool.
 */
const foreignMembers = ["task", "inputRequests", "requestState"];

function findLegacyProblem(value: unknown): string | undefined {
  if (!isObject(value)) return undefined;
  const { content, structuredContent } = value;
  if (content === undefined && foreignMembers.some((name) => name in value))
    return "the value is not the result of a tool call";
  return structuredContent === undefined || isObject(structuredContent)
    ? undefined
    : "structuredContent is not an object";
}
