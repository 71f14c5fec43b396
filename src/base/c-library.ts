/**
 * True on Linux systems such as Alpine, whose C library is musl. llama.cpp comes as libraries for glibc only: the
 * assistant cannot compute there.
 */
export function isMusl(system: { platform: string; report: unknown } = thisSystem()): boolean {
  const { platform, report } = system;
  if (platform !== "linux" || !isObject(report)) return false;
  const { header } = report;
  return isObject(header) && header["glibcVersionRuntime"] === undefined;
}

/** What `berth status`, `berth doctor` and the log say there. */
export const MUSL_NOTICE =
  "llama.cpp does not run on this system, whose C library is musl: the assistant answers as a stub, not with a model";

function thisSystem() {
  // Otherwise the report resolves the name of every connection's peer, which takes seconds.
  Reflect.set(process.report, "excludeNetwork", true);
  return { platform: process.platform, report: process.report.getReport() };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
