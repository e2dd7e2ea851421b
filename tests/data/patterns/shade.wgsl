struct Light { pos: vec3<f32> }
// Shades a pixel.
@fragment
fn shade(@location(0) uv: vec2<f32>) -> @location(0) vec4<f32> {
  return vec4<f32>(1.0);
}
