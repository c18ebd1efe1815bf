// SPDX-License-Identifier: GPL-2.0
//! Colours, from palettes that colour-blind readers tell apart.

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8);

/// Words and axes.
pub const INK: Color = Color(34, 34, 34);
/// What is less important.
pub const FAINT: Color = Color(120, 120, 120);
/// What belongs to no series.
pub const GRAY: Color = Color(190, 190, 190);

/// Series side by side: Okabe and Ito's. The first is Turnstile's.
pub const SERIES: [Color; 6] = [
    Color(0, 114, 178),
    Color(213, 94, 0),
    Color(0, 158, 115),
    Color(204, 121, 167),
    Color(230, 159, 0),
    Color(86, 180, 233),
];

/// Steps of one hue, the first the darkest: ColorBrewer's YlOrBr.
pub const WARM: [Color; 8] = [
    Color(92, 32, 4),
    Color(140, 48, 4),
    Color(190, 68, 2),
    Color(226, 98, 14),
    Color(246, 134, 30),
    Color(254, 168, 58),
    Color(254, 206, 101),
    Color(254, 230, 160),
];

/// Steps of another hue, the first the darkest.
pub const COLD: [Color; 3] = [Color(0, 84, 140), Color(66, 150, 205), Color(170, 212, 240)];

/// The `n`th series' colour.
pub const fn series(n: usize) -> Color {
    SERIES[n % SERIES.len()]
}

/// The `n`th of `count` steps of the warm hue: few steps are spread over the whole scale.
pub fn warm(n: usize, count: usize) -> Color {
    let step = (WARM.len() - 1) * n / count.saturating_sub(1).max(1);
    WARM[step.min(WARM.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_spread_over_the_scale() {
        assert_eq!(warm(0, 2), WARM[0]);
        assert_eq!(warm(1, 2), WARM[7]);
        assert_eq!(warm(0, 1), WARM[0]);
        assert_eq!(warm(3, 8), WARM[3]);
        assert_eq!(series(7), SERIES[1]);
    }
}
