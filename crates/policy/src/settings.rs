//! How settings are written: a method sets each, so that a new one breaks nobody.

/// A struct of settings with its defaults: `new`, `Default`, and for each field a method of its name that sets it.
#[doc(hidden)]
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $Name:ident {
            $($(#[$doc:meta])* $seen:vis $field:ident: $Type:ty = $default:expr,)*
        }
    ) => {
        $crate::settings_struct! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq)]
            #[non_exhaustive]
            pub struct $Name {
                $(
                    // Not part of the interface, even where a crate's own tests read it.
                    #[doc(hidden)]
                    $seen $field: $Type,
                )*
            }
        }

        impl $Name {
            /// The defaults.
            pub const fn new() -> Self {
                Self { $($field: $default,)* }
            }

            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $field(mut self, $field: $Type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }

        impl Default for $Name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

/// With the feature `serde` settings are read and written by the names of their fields. What is left out has its
/// default, and a name that is none is an error. The feature is this crate's, wherever the struct is.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! settings_struct {
    ($($item:tt)*) => {
        #[derive($crate::serde::Serialize, $crate::serde::Deserialize)]
        #[serde(crate = "chiplet_policy::serde", default, deny_unknown_fields)]
        $($item)*
    };
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! settings_struct {
    ($($item:tt)*) => {
        $($item)*
    };
}
