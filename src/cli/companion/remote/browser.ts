import { spawn } from "node:child_process";
import type { Cli } from "../../cli.ts";

/** Returns true if a browser that is started on this machine is visible to the user. */
export function hasDesktop({ io }: Cli): boolean {
  const { environment, inputIsTerminal, errorIsTerminal } = io;
  const hasScreen = Boolean(environment["WAYLAND_DISPLAY"]) || Boolean(environment["DISPLAY"]);
  return hasScreen && inputIsTerminal && errorIsTerminal;
}

/** Opens an http or https URL in the user's browser if possible. Any other URL is ignored. */
export function openInBrowser({ io }: Cli, url: string): void {
  const page = URL.parse(url);
  if (!/^https?:\/\//.test(url) || !page) return;
  const browser = spawn("xdg-open", [page.href], {
    detached: true,
    stdio: "ignore",
    env: { ...io.environment },
  });
  // If the program xdg-open is missing, the user opens the printed link.
  browser.on("error", () => {});
  browser.unref();
}
