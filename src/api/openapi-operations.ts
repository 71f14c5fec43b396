import { STATUS_CODES } from "node:http";
import {
  isNullableObject,
  isObject,
  type Json,
  type JsonObject,
  withoutNull,
} from "./openapi-schemas.ts";

/** Completes the operations of the document with what the route schemas do not express. */
export function completeOperations(paths: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(paths).map(([path, item]) => [
      path,
      Object.fromEntries(
        Object.entries(isObject(item) ? item : {}).map(([method, operation]) => [
          method,
          isObject(operation) ? completeOperation(path, method, operation) : operation,
        ]),
      ),
    ]),
  );
}

function completeOperation(path: string, method: string, operation: JsonObject): JsonObject {
  const { summary, description, requestBody, responses, ...rest } = operation;
  return {
    operationId: toOperationId(path, method),
    summary: summary ?? "",
    description: description ?? (typeof summary === "string" ? `${summary}.` : ""),
    ...rest,
    ...(isObject(requestBody) ? { requestBody: completeBody(requestBody) } : {}),
    responses: completeResponses(path, isObject(responses) ? responses : {}),
  };
}

/**
 * Returns an operation id such as `postAppsByNameDeploy`, which depends only on the path and the
 * method.
 */
function toOperationId(path: string, method: string): string {
  const words = path
    .replace(/^\/api\//, "/")
    .split(/[/.-]/)
    .filter((word) => word !== "")
    .map((word) => (word.startsWith("{") ? `By-${word.slice(1, -1)}` : word))
    .flatMap((word) => word.split(/[-_]/));
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
}

/**
 * Completes a request body of the OpenAPI document: a body that may be null becomes optional, and its schema no longer
 * allows null.
 */
function completeBody(body: JsonObject): JsonObject {
  const content = isObject(body["content"]) ? body["content"] : {};
  const isOptional = Object.values(content).some(
    (media) => isObject(media) && isObject(media["schema"]) && isNullableObject(media["schema"]),
  );
  return {
    ...body,
    required: !isOptional,
    content: mapSchemas(content, (_type, schema) => withoutNull(schema)),
  };
}

function completeResponses(path: string, responses: JsonObject): JsonObject {
  const own = Object.entries(responses).filter(([status]) => !/^[45]XX$/.test(status));
  return {
    ...Object.fromEntries(
      own.map(([status, response]) => [status, completeResponse(path, status, response)]),
    ),
    "4XX": errorResponse("The request is refused; x-error-code says why."),
    "5XX": errorResponse("The server, or a program that it needs, failed; x-error-code says why."),
  };
}

/** The component that describes the data of a stream's events, by the path of the stream. */
const eventData: Readonly<Record<string, string>> = {
  "/api/events": "Change",
  "/api/llm/models/{id}/progress": "ModelProgress",
};

function completeResponse(path: string, status: string, response: Json): JsonObject {
  const description = STATUS_CODES[status] ?? "Response";
  const content = isObject(response) ? response["content"] : undefined;
  if (!isObject(content) || status === "204") return { description };
  // Only JSON bodies have their own schema. Streams are documented event by event, all other bodies as plain text.
  const media = mapSchemas(content, (type, schema) =>
    type === "application/json" ? schema : textSchema(type, eventData[path]),
  );
  return { description, content: media };
}

function textSchema(type: string, dataSchema: string | undefined): JsonObject {
  return type === "text/event-stream" ? eventSchema(dataSchema) : { type: "string" };
}

/** Returns the schema of one event of a stream, in the form of OpenAPI 3.2, which tools already read. */
function eventSchema(dataSchema: string | undefined): JsonObject {
  const contentSchema = dataSchema && { $ref: `#/components/schemas/${dataSchema}` };
  return {
    type: "object",
    required: ["data"],
    properties: {
      event: { type: "string" },
      id: { type: "string" },
      data: {
        type: "string",
        contentMediaType: "application/json",
        ...(contentSchema ? { contentSchema } : {}),
      },
    },
  };
}

function errorResponse(description: string): JsonObject {
  return {
    description,
    headers: {
      "x-error-code": {
        description: "An error code; docs/errors.md explains each one.",
        schema: { type: "string" },
      },
    },
    content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
  };
}

function mapSchemas(content: JsonObject, change: (type: string, schema: Json) => Json): JsonObject {
  return Object.fromEntries(
    Object.entries(content).map(([type, media]) => [
      type,
      isObject(media) ? { ...media, schema: change(type, media["schema"] ?? {}) } : media,
    ]),
  );
}
