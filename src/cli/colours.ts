import picocolors from "picocolors";
import type { Environment } from "../base/process-environment.ts";

export type Colors = ReturnType<typeof picocolors.createColors>;

/**
 * Returns functions that colour text. They leave the text unchanged if the output is not a terminal, if colours are not
 * wanted, or if NO_COLOR (https://no-color.org) or TERM=dumb is set.
 */
export function createColours(
  isTerminal: boolean,
  environment: Environment,
  isWanted: boolean,
): Colors {
  const isRefused = !isWanted || Boolean(environment["NO_COLOR"]) || environment["TERM"] === "dumb";
  return picocolors.createColors(isTerminal && !isRefused);
}

/** Returns green for a wanted state, yellow for one that is changing, and red for one that needs attention. */
export function getStatusColour(colors: Colors, status: string): (text: string) => string {
  switch (status.toLowerCase()) {
    case "running":
    case "completed":
    case "ready":
    case "ok":
    case "applied":
    case "stable":
    case "created":
    case "true":
    case "connected":
    case "watching":
    case "following":
    case "delivered":
    case "succeeded":
      return colors.green;
    case "failed":
    case "failing":
    case "fail":
    case "invalid":
    case "conflict":
    case "quarantined":
    case "abandoned":
    case "missing":
    case "unreadable":
    case "disconnected":
      return colors.red;
    case "stopped":
    case "unchanged":
    case "absent":
    case "off":
    case "cancelled":
      return colors.dim;
    default:
      return colors.yellow;
  }
}
