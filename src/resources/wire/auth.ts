import { type Static, Type } from "typebox";
import { Duration } from "../field-schemas.ts";
import { closed, NullableString, OneOf, Timestamp } from "./wire-schema.ts";

export const tokenScopes = ["read", "write", "admin"] as const;

export const LoginBody = Type.Object({ password: Type.String({ maxLength: 1024 }) }, closed);

export const LoginResponse = Type.Object(
  {
    token: Type.String(),
    token_type: Type.Literal("Bearer"),
    expires_in: Type.Integer({ description: "seconds" }),
    expires_at: Timestamp,
  },
  closed,
);
export type LoginResponse = Static<typeof LoginResponse>;

const tokenFields = {
  id: Type.String(),
  name: Type.String(),
  scope: OneOf(tokenScopes),
  kind: OneOf(["session", "named", "local"]),
  created_at: Timestamp,
  expires_at: NullableString,
  last_used_at: NullableString,
};

export const TokenView = Type.Object(tokenFields, closed);
export type TokenView = Static<typeof TokenView>;

export const TokenList = Type.Object(
  { tokens: Type.Array(TokenView), total: Type.Integer() },
  closed,
);
export type TokenList = Static<typeof TokenList>;

export const CreateTokenBody = Type.Object(
  {
    name: Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" }),
    scope: Type.Optional(OneOf(tokenScopes)),
    expires_in: Type.Optional(Duration),
  },
  closed,
);
export type CreateTokenBody = {
  name: string;
  scope?: (typeof tokenScopes)[number];
  expires_in?: string;
};

/** The response to the creation of a token. Only this response contains the token. */
export const CreatedToken = Type.Object({ token: Type.String(), ...tokenFields }, closed);
export type CreatedToken = Static<typeof CreatedToken>;
