import type { ProviderLimits } from "../provider-http/port.ts";

const MEBIBYTE = 2 ** 20;

/** A model that thinks before it speaks is silent for minutes; five are what HTTP clients commonly wait. */
export const generateLimits: ProviderLimits = {
  headMs: 300_000,
  silentMs: 300_000,
  bytesMax: 64 * MEBIBYTE,
};

/** 2,048 vectors of 4,096 numbers in digits are some 180 MB. */
export const embedLimits: ProviderLimits = {
  headMs: 120_000,
  silentMs: 60_000,
  bytesMax: 256 * MEBIBYTE,
};

/** The longest list there is, of some thousand models, has 2 MB. */
export const modelsLimits: ProviderLimits = {
  headMs: 10_000,
  silentMs: 10_000,
  bytesMax: 16 * MEBIBYTE,
};
