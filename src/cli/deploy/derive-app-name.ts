import { basename } from "node:path";
import { UsageError } from "../cli-errors.ts";

const LENGTH_MAX = 63;

/**
 * Derives the name of an app from the name of a folder or repository. Throws UsageError if no allowed characters
 * remain.
 */
export function toAppName(text: string): string {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, LENGTH_MAX)
    .replaceAll(/^-+|-+$/g, "");
  if (name === "")
    throw new UsageError(
      `no app name can be derived from "${text}"`,
      "name the app: berth deploy DIR --name NAME",
    );
  return name;
}

/** Derives a name from the URL of a repository: `https://host/team/Shop.git` gives `shop`. */
export function appNameFromRepository(url: string): string {
  const path = url.replace(/[/]+$/, "").replace(/\.git$/i, "");
  return toAppName(basename(path.split(":").at(-1) ?? path));
}
