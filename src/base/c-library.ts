/**
 * Returns true on Linux systems such as Alpine, whose C library is musl. llama.cpp is shipped for glibc only, so the
 * assistant cannot run models there.
 */
export function isMusl(system: { platform: string; report: unknown } = thisSystem()): boolean {
  const { platform, report } = system;
  if (platform !== "linux" || !isObject(report)) return false;
  const { header } = report;
  return isObject(header) && header["glibcVersionRuntime"] === undefined;
}

/** Notice that `berth status`, `berth doctor` and the log show on a system with musl. */
export const MUSL_NOTICE =
  "llama.cpp does not run on this system, whose C library is musl: the assistant answers as a stub, not with a model";

function thisSystem() {
  // Without `excludeNetwork`, Node's diagnostic report resolves the host name of every connected peer, which takes
  // seconds.
  Reflect.set(process.report, "excludeNetwork", true);
  return { platform: process.platform, report: process.report.getReport() };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
