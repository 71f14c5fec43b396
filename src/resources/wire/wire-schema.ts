import { type Static, type TSchema, Type } from "typebox";

/**
 * Schemas of what crosses the wire: bodies in snake_case, as `docs/api.md` shows them. They make the
 * types of the server and of the client, the serializers of the answers and the OpenAPI document.
 * Field names inside a `spec` are those of the manifest, so that a spec can be copied between both.
 */
export const closed = { additionalProperties: false } as const;

/** `type: [x, "null"]`: serializers are several times faster with it than with a union. */
export const NullableString = Type.Unsafe<string | null>({ type: ["string", "null"] });
export const NullableInteger = Type.Unsafe<number | null>({ type: ["integer", "null"] });
export const NullableBoolean = Type.Unsafe<boolean | null>({ type: ["boolean", "null"] });

export const Timestamp = Type.String({ description: "RFC 3339 in UTC" });

/** Text by key. */
export function StringMap(options: { readonly description?: string } = {}) {
  return Type.Unsafe<Record<string, string>>({
    type: "object",
    additionalProperties: { type: "string" },
    ...options,
  });
}

/** One of a list of words. */
export function OneOf<const T extends string>(values: readonly T[]) {
  return Type.Unsafe<T>({ type: "string", enum: [...values] });
}

/** A value that has a schema of its own among the OpenAPI components and goes out as it is. */
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

/** The body of every error answer: this one field and nothing else. */
export const ErrorBody = Type.Object(
  { error: Type.String({ description: "what happened, and what to do about it" }) },
  closed,
);
export type ErrorBody = Static<typeof ErrorBody>;

/** `path` is a JSON Pointer below the resource. A value that was or is absent is left out; secret values are "(secret)". */
export const FieldChangeView = Type.Object(
  {
    path: Type.String(),
    before: Type.Optional(Type.Unknown()),
    after: Type.Optional(Type.Unknown()),
  },
  closed,
);
export type FieldChangeView = Static<typeof FieldChangeView>;
