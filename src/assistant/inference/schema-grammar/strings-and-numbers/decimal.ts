/** The exact value `digits` / 10^`scale`; `scale` is not negative. */
export interface Decimal {
  readonly digits: bigint;
  readonly scale: number;
}

/**
 * Converts a number to the decimal that JavaScript prints, which has the value that the schema's author wrote. From
 * 2^53 on, where JavaScript rounds the printed digits, returns the exact value of the double.
 */
export function toDecimal(value: number): Decimal {
  if (Math.abs(value) >= 2 ** 53) return { digits: BigInt(value), scale: 0 };
  const [mantissa = "0", exponent = "0"] = String(value).split("e");
  const [whole = "0", fraction = ""] = mantissa.split(".");
  const digits = BigInt(whole + fraction);
  const scale = fraction.length - Number(exponent);
  return scale < 0 ? { digits: digits * powerOfTen(-scale), scale: 0 } : { digits: digits, scale };
}

/** Returns value * 10^`scale`, rounded to a whole number in the direction of `rounding`. */
export function scaleDecimal(value: Decimal, scale: number, rounding: "up" | "down"): bigint {
  if (scale >= value.scale) return value.digits * powerOfTen(scale - value.scale);
  const divisor = powerOfTen(value.scale - scale);
  const quotient = value.digits / divisor;
  const rest = value.digits % divisor;
  if (rest === 0n) return quotient;
  if (rounding === "up") return rest > 0n ? quotient + 1n : quotient;
  return rest < 0n ? quotient - 1n : quotient;
}

/**
 * Returns true if `value` is a multiple of `step`, comparing both as printed decimals. By division of doubles, 0.07
 * would not be a multiple of 0.01, so validators of generated documents must use this function.
 */
export function isMultipleOf(value: number, step: number): boolean {
  const number = toDecimal(value);
  const unit = toDecimal(step);
  return (number.digits * powerOfTen(unit.scale)) % (unit.digits * powerOfTen(number.scale)) === 0n;
}

/** Counts the digits before the decimal point; 1 for numbers below 1. */
export function countWholeDigits(value: Decimal): number {
  const whole = scaleDecimal(value, 0, "down");
  return String(whole < 0n ? -whole : whole).length;
}

export function powerOfTen(exponent: number): bigint {
  return 10n ** BigInt(exponent);
}

/** Returns the next double in the given direction; the largest and smallest doubles are returned unchanged. */
export function nextDouble(value: number, direction: "up" | "down"): number {
  if (value === 0) return direction === "up" ? Number.MIN_VALUE : -Number.MIN_VALUE;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const grows = value > 0 === (direction === "up");
  view.setBigInt64(0, view.getBigInt64(0) + (grows ? 1n : -1n));
  const next = view.getFloat64(0);
  return Number.isFinite(next) ? next : value;
}
