import { basename } from "node:path";
import { UsageError } from "../cli-errors.ts";

const LENGTH_MAX = 63;

/** The name of a folder, or of a repository, as that of an app. Throws UsageError where nothing of it can stand. */
export function toAppName(text: string): string {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, LENGTH_MAX)
    .replaceAll(/^-+|-+$/g, "");
  if (name === "")
    throw new UsageError(
      `"${text}" gives no name for an app`,
      "name it: berth deploy DIR --name NAME",
    );
  return name;
}

/** `https://host/team/Shop.git` -> `shop`. */
export function appNameFromRepository(url: string): string {
  const path = url.replace(/[/]+$/, "").replace(/\.git$/i, "");
  return toAppName(basename(path.split(":").at(-1) ?? path));
}
