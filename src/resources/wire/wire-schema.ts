import { type Static, type TSchema, Type } from "typebox";

/**
 * The schemas of the bodies of the API, in snake_case as in `docs/api.md`. The types of the server and the client, the
 * serializers and the OpenAPI document are derived from these schemas. Inside a `spec`, field names are those of the
 * manifest, so that a spec can be copied from a manifest into a request.
 */

/** The option with which a schema refuses unknown fields. */
export const closed = { additionalProperties: false } as const;

/**
 * The schemas of values that may be null. They use `type: [x, "null"]` instead of a union, because
 * serializers are then several times faster.
 */
export const NullableString = Type.Unsafe<string | null>({ type: ["string", "null"] });
export const NullableInteger = Type.Unsafe<number | null>({ type: ["integer", "null"] });
export const NullableBoolean = Type.Unsafe<boolean | null>({ type: ["boolean", "null"] });

export const Timestamp = Type.String({ description: "RFC 3339 in UTC" });

/** Returns the schema of a mapping of keys to text. */
export function StringMap(options: { readonly description?: string } = {}) {
  return Type.Unsafe<Record<string, string>>({
    type: "object",
    additionalProperties: { type: "string" },
    ...options,
  });
}

/** Returns the schema of a string enumeration. */
export function OneOf<const T extends string>(values: readonly T[]) {
  return Type.Unsafe<T>({ type: "string", enum: [...values] });
}

/**
 * Returns the schema of a value that is serialized unchanged. The value's own schema is a component of the OpenAPI
 * document.
 */
export function Component<T>(name: string, description?: string) {
  return Type.Unsafe<T>({
    type: "object",
    additionalProperties: true,
    "x-component": name,
    ...(description === undefined ? {} : { description }),
  });
}

export function NullableOf<T extends TSchema>(schema: T) {
  return Type.Unsafe<Static<T> | null>({ ...schema, type: ["object", "null"] });
}

/** The body of every error response. Its only field `error` is a message to the user. */
export const ErrorBody = Type.Object(
  { error: Type.String({ description: "what happened, and what to do about it" }) },
  closed,
);
export type ErrorBody = Static<typeof ErrorBody>;

/** The change of a field at a JSON Pointer. An absent old or new value is omitted; a Secret's value is "(secret)". */
export const FieldChangeView = Type.Object(
  {
    path: Type.String(),
    before: Type.Optional(Type.Unknown()),
    after: Type.Optional(Type.Unknown()),
  },
  closed,
);
export type FieldChangeView = Static<typeof FieldChangeView>;
