import { type TSchema, Type } from "typebox";
import { durationPattern } from "../base/units.ts";
import { type AppDetails, DryRunReport } from "../resources/wire/apps.ts";
import { Component, closed, ErrorBody } from "../resources/wire/wire-schema.ts";

/** Returns the response schemas of a route: its own, and the error body for all other statuses. */
export function responses<const T extends Readonly<Record<number, TSchema>>>(own: T) {
  return { ...own, "4xx": ErrorBody, "5xx": ErrorBody } as const;
}

/** Returns the schema of a response that bypasses the serializer: a stream, or text that is serialized already. */
export function unserialized(schema: TSchema) {
  return Type.Unsafe<unknown>(schema);
}

/** The details of the app, or the report of a dry run. */
export const AppWriteResponse = Component<AppDetails | DryRunReport>("AppWriteAnswer");

/** The responses to a write of one app. */
export const appWriteResponses = responses({ 200: AppWriteResponse, 202: AppWriteResponse });

export const NameParams = Type.Object({ name: Type.String() }, closed);

/** The body of a POST without content: no body at all, or an empty object. */
export const EmptyBody = Type.Unsafe<Record<string, never> | null>({
  type: ["object", "null"],
  additionalProperties: false,
});

export const NoQuery = Type.Object({}, closed);

export const ForceQuery = Type.Object({ force: Type.Optional(Type.Boolean()) }, closed);

export const writeQueryFields = {
  wait: Type.Optional(
    Type.Boolean({
      description: "respond when the app or model is as requested, or has failed (409)",
    }),
  ),
  timeout: Type.Optional(
    Type.String({
      pattern: durationPattern,
      maxLength: 32,
      description: "a duration to wait, such as 30s, at most 4m (default: 60s)",
    }),
  ),
  dry_run: Type.Optional(
    Type.Boolean({ description: "respond with the plan, and change nothing" }),
  ),
  force: Type.Optional(
    Type.Boolean({ description: "take fields over from the spec files that own them" }),
  ),
};

export const WriteQueryParams = Type.Object(writeQueryFields, closed);

export const LimitField = Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 }));
