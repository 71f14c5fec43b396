// Installs Caddy for `npm run up`. Without Caddy, apps get loopback ports only, and requests may fail while a new
// version replaces the old one.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { aptInstall, isDebianLike, isRoot, which } from "./engine.mjs";
import { flag } from "./up-flags.mjs";

const WITHOUT = "without Caddy apps get loopback ports, and a new version may drop requests";

/**
 * Installs the packages of an engine, and Caddy unless it is installed or the arguments turn it off, in one run of
 * apt-get. Throws if the engine cannot be installed. If Caddy cannot be installed, prints what Berth lacks without
 * Caddy, and continues.
 */
export async function installWithCaddy(enginePackages, args) {
  const caddy = lacksCaddy(args) ? ["caddy"] : [];
  if (enginePackages.length > 0) {
    const why = `Berth needs a container engine${caddy.length > 0 ? ", and Caddy in front of the apps" : ""}`;
    // The example app's image berth.local/hello:1, which base-image.mjs creates, uses busybox as its web server.
    const busybox = which("busybox") ? [] : ["busybox-static"];
    await aptInstall(enginePackages, why, { optional: [...caddy, ...busybox] });
  } else if (caddy.length > 0 && isDebianLike() && isRoot()) {
    try {
      await aptInstall(caddy, WITHOUT);
    } catch (error) {
      console.error(`berth: ${error.message}`);
      return;
    }
  }
  if (caddy.length === 0) return;
  if (which("caddy")) stopService();
  else console.error(`berth: ${WITHOUT}: ${installHint()}`);
}

function lacksCaddy(args) {
  const ingress = flag(args, "--ingress") ?? process.env.BERTH_INGRESS ?? "auto";
  return (ingress === "auto" || ingress === "process") && !which("caddy");
}

/** Stops the service that Debian's package starts, because the service occupies the ports of Berth's own Caddy. */
function stopService() {
  if (!existsSync("/run/systemd/system")) return;
  console.error(
    "berth: switching off the service that the package caddy has started; Berth runs its own",
  );
  spawnSync("systemctl", ["disable", "--now", "caddy"], { stdio: ["ignore", "ignore", 2] });
}

/**
 * Returns the advice for installing Caddy. It does not suggest apt-get to root: `installWithCaddy` has already tried
 * apt-get, which fails on releases without the package, such as Ubuntu 22.04.
 */
function installHint() {
  return isDebianLike() && !isRoot()
    ? "sudo apt-get install caddy, and start Berth again"
    : "install it (https://caddyserver.com/docs/install), and start Berth again";
}
