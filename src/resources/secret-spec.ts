import { type Static, Type } from "typebox";

/**
 * The `spec` of a Secret as users write it. Values are write-only: the store encrypts them, and responses contain only
 * their keys.
 */
export const SecretSpec = Type.Object(
  {
    type: Type.Optional(
      Type.Union([Type.Literal("opaque"), Type.Literal("registry")], {
        description:
          "type of the secret; registry: data contains server, username and password for pulls from that server",
      }),
    ),
    data: Type.Record(
      Type.String({ pattern: "^[A-Za-z0-9._-]{1,253}$" }),
      Type.String({ maxLength: 1_048_576 }),
      { maxProperties: 1000, additionalProperties: false, description: "key to value" },
    ),
  },
  {
    additionalProperties: false,
    description: "Values that Berth gives to apps and never shows again.",
  },
);
export type SecretSpec = Static<typeof SecretSpec>;
