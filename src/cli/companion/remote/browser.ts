import { spawn } from "node:child_process";
import type { Cli } from "../../cli.ts";

/** Whether a browser that is started here shows up where the person sits. */
export function hasDesktop({ io }: Cli): boolean {
  const { environment, inputIsTerminal, errorIsTerminal } = io;
  const hasScreen = Boolean(environment["WAYLAND_DISPLAY"]) || Boolean(environment["DISPLAY"]);
  return hasScreen && inputIsTerminal && errorIsTerminal;
}

/** Opens the page in the person's browser, where that can be done; nothing else than a web page is opened. */
export function openInBrowser({ io }: Cli, url: string): void {
  const page = URL.parse(url);
  if (!/^https?:\/\//.test(url) || !page) return;
  const browser = spawn("xdg-open", [page.href], {
    detached: true,
    stdio: "ignore",
    env: { ...io.environment },
  });
  // Without such a program the person follows the link, which is shown.
  browser.on("error", () => {});
  browser.unref();
}
