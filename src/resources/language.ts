import { type Static, Type } from "typebox";

/** The languages for which Berth generates a Dockerfile; `static` is a folder of pages, `shell` a
 * script that starts the app. */
export const languageSchema = Type.Union([
  Type.Literal("node"),
  Type.Literal("python"),
  Type.Literal("go"),
  Type.Literal("php"),
  Type.Literal("ruby"),
  Type.Literal("java"),
  Type.Literal("dotnet"),
  Type.Literal("rust"),
  Type.Literal("elixir"),
  Type.Literal("deno"),
  Type.Literal("shell"),
  Type.Literal("static"),
]);

export type Language = Static<typeof languageSchema>;

export const LANGUAGES: readonly Language[] = languageSchema.anyOf.map(
  ({ const: language }) => language,
);
