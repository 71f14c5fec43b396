/**
 * Returns true on Linux systems such as Alpine, whose C library is musl. llama.cpp is shipped for glibc only, so
 * the assistant cannot compute there.
 */
export function isMusl(system: { platform: string; report: unknown } = thisSystem()): boolean {
  const { platform, report } = system;
  if (platform !== "linux" || !isObject(report)) return false;
  const { header } = report;
  return isObject(header) && header["glibcVersionRuntime"] === undefined;
}

/** Notice in `berth status`, in `berth doctor` and in the log on such a system. */
export const MUSL_NOTICE =
  "llama.cpp does not run on this system, whose C library is musl: the assistant answers as a stub, not with a model";

function thisSystem() {
  // Without this the report resolves the host name of every connected peer, which takes seconds.
  Reflect.set(process.report, "excludeNetwork", true);
  return { platform: process.platform, report: process.report.getReport() };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
